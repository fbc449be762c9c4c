"""Files of artifacts, data items and models whose bytes the server stores.

Start in `uploads.py`, one request, and `resumable_uploads.py`, several. A file is a row in the store and a blob in the
`BlobStore`: the row decides what exists. May import `entities`.
"""

from runyard.app.files.downloads import AnyFile, find_only_file, get_file, read_file
from runyard.app.files.file_commits import Condition, FileUpload
from runyard.app.files.file_lists import file_to_json, list_all_files
from runyard.app.files.file_paths import read_file_path
from runyard.app.files.resumable_uploads import (
    UploadPlace,
    append_to_upload,
    begin_upload,
    complete_upload,
    delete_upload,
    get_upload,
    list_uploads,
    upload_to_json,
)
from runyard.app.files.uploads import delete_file, upload_file

__all__ = [
    "AnyFile",
    "Condition",
    "FileUpload",
    "UploadPlace",
    "append_to_upload",
    "begin_upload",
    "complete_upload",
    "delete_file",
    "delete_upload",
    "file_to_json",
    "find_only_file",
    "get_file",
    "get_upload",
    "list_all_files",
    "list_uploads",
    "read_file",
    "read_file_path",
    "upload_file",
    "upload_to_json",
]
