"""Predictions whose worth is known by construction: for judges and verifiers to be measured with."""

from worldlm.judge.calibration.items import (
    KINDS,
    ORDER,
    CalibrationItem,
    Kind,
    expected_pairs,
    load_calibration,
    make_calibration,
    read_calibration,
    write_calibration,
)
from worldlm.judge.calibration.ordering import Ordering, measure_order

__all__ = [
    "KINDS",
    "ORDER",
    "CalibrationItem",
    "Kind",
    "Ordering",
    "expected_pairs",
    "load_calibration",
    "make_calibration",
    "measure_order",
    "read_calibration",
    "write_calibration",
]
