"""Runs the Array API conformance suite against the installed package.

    python run.py PATH [--examples 200] [pytest arguments …]

PATH is a checkout of github.com/data-apis/array-api-tests at tag 2026.02.26, with its submodule
array-api. A test that fails and is not in expected_failures.txt is a failure; so is a line there that
no failing test matches.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
VERSION = "2025.12"


def expected():
    """The patterns of tests that fail, with their reasons."""
    found = {}
    for line in (HERE / "expected_failures.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition(": ")
            if not reason:
                raise SystemExit(f"expected_failures.txt: no reason in {line!r}")
            found[pattern] = reason
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suite", type=pathlib.Path)
    parser.add_argument("--examples", type=int, default=200)
    options, more = parser.parse_known_args()
    environment = dict(
        os.environ,
        ARRAY_API_TESTS_MODULE="extensor",
        ARRAY_API_TESTS_VERSION=VERSION,
        ARRAY_API_TESTS_SKIP_DTYPES="complex64,complex128",
    )
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [
            sys.executable, "-m", "pytest", "array_api_tests", "-q", "--tb=short", "-p", "no:cacheprovider",
            "--max-examples", str(options.examples), "--disable-deadline",
            "--json-report", f"--json-report-file={report}", *more,
        ]
        subprocess.run(command, cwd=options.suite, env=environment, stdout=sys.stderr)
        outcome = json.loads(report.read_text())
    patterns = expected()
    used, surprises, failed = set(), [], 0
    for test in outcome["tests"]:
        if test["outcome"] in ("failed", "error"):
            failed += 1
            matching = [p for p in patterns if fnmatch.fnmatchcase(test["nodeid"], p)]
            used.update(matching)
            if not matching:
                surprises.append(test["nodeid"])
    counts = outcome["summary"]
    print(", ".join(f"{counts[k]} {k}" for k in ("passed", "failed", "skipped", "error") if k in counts))
    print(f"{failed - len(surprises)} failures are expected, by {len(patterns)} patterns")
    for name in surprises:
        print("NOT EXPECTED:", name)
    unused = [] if more else [p for p in patterns if p not in used]
    for pattern in unused:
        print("EXPECTED, BUT PASSED:", pattern)
    sys.exit(1 if surprises or unused else 0)


if __name__ == "__main__":
    main()
