"""The client of the fenced store, without a server."""

import subprocess
import sys


def test_it_imports_psycopg_and_the_standard_library_only() -> None:
    code = (
        "import sys; before = set(sys.modules); import infra.store.store; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(*(new - sys.stdlib_module_names), sep='\\n')"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in answer.stdout.split() if not name.startswith("_")}
    assert loaded <= {"infra", "psycopg", "psycopg_binary", "typing_extensions", "cython_runtime"}
