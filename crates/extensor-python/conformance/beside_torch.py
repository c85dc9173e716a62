"""Calls our functions and PyTorch's with the same random arguments and compares all they give.

    python crates/extensor-python/conformance/beside_torch.py [--calls 2000] [--only NAME …] [--seed N]

needs the package `extensor` and PyTorch in one environment. Of every call are compared: values (in float64 and
float32), reverse mode, forward mode, and second derivatives, forward over reverse and reverse over reverse; the entry
`vmap` maps a random selection of the calls of all others. A line for each function says how many calls agreed, how
large the worst error was as a part of what is allowed, and how long it took. What failed is told with the command
that makes that call again. `beside/conventions.py` lists what is not compared, and why.

The exit status is 1 if anything disagrees, and with --strict if a function or an option is missing.
"""

import argparse
import concurrent.futures
import fnmatch
import multiprocessing
import sys
import time
import zlib
from dataclasses import dataclass, field


@dataclass
class Outcome:
    name: str
    calls: int = 0
    agreed: int = 0
    seconds: float = 0.0
    worst: dict = field(default_factory=dict)
    failures: list = field(default_factory=list)
    missing: dict = field(default_factory=dict)
    instead: dict = field(default_factory=dict)


def calls_of(options):
    return range(options.call, options.call + 1) if options.call is not None else range(options.calls)


def compare(name, options):
    """All calls of one entry."""
    from beside import judge, mapped, tables
    from beside.draw import Draw
    from beside.entry import Missing

    chosen = tables.ENTRIES[name]
    outcome = Outcome(name)
    judged = judge.Judge(options.plant)
    started = time.perf_counter()
    for number in calls_of(options):
        draw = Draw(options.seed, zlib.crc32(name.encode()), number)
        outcome.calls += 1
        text = ""
        try:
            if name == "vmap":
                text = mapped.judge(judged, draw)
            else:
                call = chosen.draw(draw)
                text = call.text
                judged.judge(call, draw)
            outcome.agreed += 1
        except Missing as error:
            outcome.missing[str(error)] = outcome.missing.get(str(error), 0) + 1
        except Exception as error:
            kind = "" if isinstance(error, (judge.Wrong, judge.Broken)) else f"{type(error).__name__}: "
            if options.raising:
                raise
            outcome.failures.append((number, text, f"{kind}{error}"))
            if len(outcome.failures) >= options.enough:
                break
        if set(outcome.missing) == {name} and outcome.calls >= 5:
            break
    outcome.worst, outcome.instead = judged.worst, dict(judged.instead)
    outcome.seconds = time.perf_counter() - started
    return outcome


def told(outcome, options):
    """The line of an entry, and what failed."""
    if outcome.agreed == 0 and not outcome.failures:
        return f"{outcome.name:34} missing: {', '.join(sorted(outcome.missing))}"
    parts = ", ".join(f"{kind} {part:.2g}" for kind, part in outcome.worst.items())
    verdict = "ok" if not outcome.failures else f"FAILED {len(outcome.failures)}"
    line = f"{outcome.name:34} {verdict:9} {outcome.agreed:5}/{outcome.calls} calls  {outcome.seconds:6.1f} s  {parts}"
    for what, count in outcome.instead.items():
        line += f"\n    PyTorch's {what} ({count} calls)"
    for what, count in sorted(outcome.missing.items()):
        line += f"\n    missing {what} ({count} calls)"
    for number, text, reason in outcome.failures[: options.show]:
        line += f"\n    {outcome.name}({text}): {reason}"
        line += f"\n      again: beside_torch.py --seed {options.seed} --only {outcome.name} --call {number}"
    return line


def selected(options):
    from beside import tables

    names = [name for name, e in tables.ENTRIES.items() if e.new or not options.new]
    if options.area:
        names = [name for name in names if tables.ENTRIES[name].area in options.area]
    if options.only:
        unknown = [p for p in options.only if not fnmatch.filter(tables.ENTRIES, p)]
        if unknown:
            raise SystemExit(f"no entry is called {', '.join(unknown)}: see --list")
        names = [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in options.only)]
    return names


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="calls of each function (2000)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these entries alone; * and ? match")
    parser.add_argument("--area", nargs="+", help="the entries of these areas alone")
    parser.add_argument("--new", action="store_true", help="without the operations that were there before")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--call", type=int, metavar="K", help="one call alone, by its number")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the entries")
    parser.add_argument("--strict", action="store_true", help="what is missing is a failure")
    parser.add_argument("--show", type=int, default=3, help="failures told of each function (3)")
    parser.add_argument("--enough", type=int, default=20, help="failures after which a function is left (20)")
    parser.add_argument("--raising", action="store_true", help="end at the first failure, with its traceback")
    parser.add_argument("--list", action="store_true", help="the entries, their areas and names, and nothing else")
    planting = "an error planted in every function of ours, which must be found: value, gradient, second"
    parser.add_argument("--plant", choices=("value", "gradient", "second"), help=planting)
    return parser.parse_args()


def outcomes(names, options):
    if options.jobs <= 1:
        yield from (compare(name, options) for name in names)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        waiting = [pool.submit(compare, name, options) for name in names]
        yield from (future.result() for future in waiting)


def main():
    options = arguments()
    from beside import conventions, entry, tables

    names = selected(options)
    if options.list:
        for name in names:
            chosen = tables.ENTRIES[name]
            there = next((n for n in chosen.names if entry.present(n)), "missing")
            print(f"{name:34} {chosen.area:14} {there}")
        return 0
    all_of_them = []
    for outcome in outcomes(names, options):
        print(told(outcome, options), flush=True)
        all_of_them.append(outcome)
    failed = [o.name for o in all_of_them if o.failures]
    absent = [o.name for o in all_of_them if not o.agreed and not o.failures]
    partly = [o.name for o in all_of_them if o.missing and o.name not in absent]
    print("\nNot compared, and why:")
    for name, what, reason in conventions.LEFT_OUT:
        if name in names:
            print(f"  {name}: {what}: {reason}")
    calls = sum(o.agreed for o in all_of_them)
    print(f"\n{len(all_of_them)} entries, {calls} calls agree, {sum(o.seconds for o in all_of_them):.0f} s")
    for title, which in (("FAILED", failed), ("missing", absent), ("lacking an option", partly)):
        if which:
            print(f"{title} ({len(which)}): {' '.join(which)}")
    if options.plant:
        unseen = [o.name for o in all_of_them if o.agreed == o.calls]
        print(f"planted error {options.plant}: not seen in {len(unseen)}: {' '.join(unseen)}")
    return 1 if failed or (options.strict and (absent or partly)) else 0


if __name__ == "__main__":
    sys.exit(main())
