"""Files of artifacts, data items and models whose bytes the server stores.

Start in `uploads.py`. A file is a row in the store and a blob in the `BlobStore`: the row decides what exists. May
import `entities`.
"""

from runyard.app.files.downloads import find_only_file, get_file, read_file
from runyard.app.files.file_lists import file_to_json, list_all_files
from runyard.app.files.file_paths import read_file_path
from runyard.app.files.uploads import Condition, FileUpload, delete_file, upload_file

__all__ = [
    "Condition",
    "FileUpload",
    "delete_file",
    "file_to_json",
    "find_only_file",
    "get_file",
    "list_all_files",
    "read_file",
    "read_file_path",
    "upload_file",
]
