"""Does a saver or a store keep the contract? A suite that anybody can run on his own.

It needs this package and nothing else, no pytest. With a saver of your own, in ten lines:

    from functools import partial
    from graphkit_checkpoint.conformance import check_saver
    from my_package import RedisSaver

    if __name__ == "__main__":  # other processes import this file
        report = check_saver(
            partial(RedisSaver, "redis://localhost/9"),  # on an empty storage: everything in it is deleted
            without={"rollback": "Redis does not take back what a transaction has done"},
        )
        print(report)
        report.raise_if_failed()

`partial(...)` is called with the options of `BaseCheckpointSaver` and opens another saver on the same storage
each time. What a saver does not claim to do is said in `without`, with the reason, and stays visible in the
report. `check_store` does the same for stores. From the shell:

    python -m graphkit_checkpoint.conformance sqlite:///checks.sqlite
    python -m graphkit_checkpoint.conformance my_package:make_saver --without rollback="no such thing"
"""

from graphkit_checkpoint.conformance.capabilities import OPTIONAL, Capability
from graphkit_checkpoint.conformance.checking import check_saver, check_store
from graphkit_checkpoint.conformance.damage import Damage, damage_tables
from graphkit_checkpoint.conformance.report import Count, Report, Result
from graphkit_checkpoint.conformance.verdicts import CheckFailedError

__all__ = [
    "OPTIONAL",
    "Capability",
    "CheckFailedError",
    "Count",
    "Damage",
    "Report",
    "Result",
    "check_saver",
    "check_store",
    "damage_tables",
]
