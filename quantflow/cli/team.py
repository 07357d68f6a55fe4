"""A command under torchrun: the leader runs it, the other workers help where it is shared out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from quantflow.cli.failure import INTERRUPTED, interrupted, machine_problem, report
from quantflow.cli.options import Options
from quantflow.cli.session import session
from quantflow.errors import QuantflowError

if TYPE_CHECKING:
    from quantflow.runtime.distributed import TorchWorkers
    from quantflow.runtime.workers import Workers


def with_workers(command: Callable[[Workers], int], options: Options) -> int:
    """Run a command that does work; as one of several workers if a launcher started them.

    Only the leader runs it, prints and writes. The others serve it and say nothing.

    Args:
        command: given the workers, returns the exit status.
        options: of the command, the same for all workers.

    Returns:
        The exit status, the same for all workers.
    """
    from quantflow.runtime.workers import ALONE, place_from_environment

    place = place_from_environment()
    if place.count == 1:
        return command(ALONE)
    from quantflow.runtime.distributed import join

    workers = join(place)
    code = _serve(workers, options) if place.rank else _lead(command, workers, options)
    if code == INTERRUPTED:
        sys.exit(code)  # which the leader has said, and nobody says again
    return code


def _lead(command: Callable[[Workers], int], workers: TorchWorkers, options: Options) -> int:
    try:
        code = command(workers)
    except (Exception, KeyboardInterrupt) as error:
        code = report(error, as_json=options.json, verbose=options.verbose)
    sys.stdout.flush()  # torchrun ends all workers as soon as one has ended with an error
    with suppress(QuantflowError):  # whoever is lost need not be told
        workers.dismiss(code)
    return code


def _serve(workers: TorchWorkers, options: Options) -> int:
    try:
        code = _assist(workers, options)
    except KeyboardInterrupt:  # the leader has it as well, and waits for all to leave
        code = INTERRUPTED
    workers.leave()
    return code


def _assist(workers: TorchWorkers, options: Options) -> int:
    from quantflow.runtime.distributed import Dismissed
    from quantflow.stages.pipeline import assist

    while not isinstance(order := workers.next_order(), int):
        try:
            with session(options, workers) as context:
                assist(context, order["stage"], order["inputs"])
        except Dismissed:
            continue
        except Exception as error:
            if interrupted(error):
                raise KeyboardInterrupt from error
            workers.report(machine_problem(error) or error)
    return order
