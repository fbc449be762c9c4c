"""What the machine has, who has which part of it, and who waits for it.

Start in `room.py`: the queue. `claim_journal.py` is its file, `machine.py` reads what there is, and `amounts.py` what a
run asks for. May import `pods`, `procs` and `spec`.
"""
