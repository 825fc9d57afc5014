"""What ``partkit`` and ``python3 -m partkit`` can do: one file a command, each with ``run(args) -> exit status``.

    command    file       needs              does
    lab        lab.py     partkit[notebook]  JupyterLab at the course; --headless runs the first notebook and prints its facts
    demo       demo.py    partkit            a ring all-reduce on live ranks, in the terminal
    bench      bench.py   partkit            ratios measured side by side in one run
    view       view.py    partkit            a saved trace as a page
    test       suite.py   partkit[dev]       every check there is: style, types, unit, live, notebook, browser

From a fresh clone the commands set up what they need first:

    python3 -m partkit test
      __main__.main            reads the arguments                                standard library only, as far as `environment`
      environment.ensure       this Python has it all? go on. else: .venv, torch for the CPU, partkit; start again there
      suite.run                imports what it likes
"""


class Refusal(Exception):
    """A command cannot go on; the message tells a person why and what would help. Shown without a traceback."""
