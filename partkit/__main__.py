"""``python3 -m partkit COMMAND``, the same as the console script ``partkit``. Works in a fresh clone with a bare Python.

This file must also be readable for a Python that is too old to run the rest: it is the one that has to say so (hence the quoted annotation).
"""

import sys

OLDEST = (3, 10)


def main(argv: "list[str] | None" = None) -> int:
    """Run one command; gives the exit status."""
    if sys.version_info < OLDEST:
        sys.stderr.write("partkit: this is Python %d.%d, partkit needs Python %d.%d or newer\n" % (sys.version_info[:2] + OLDEST))  # noqa: UP031
        return 1
    from partkit.commands.parser import dispatch

    return dispatch(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
