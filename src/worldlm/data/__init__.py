"""Trajectories of others in, trajectories for others out."""

from worldlm.data.exporting import export_trajectories
from worldlm.data.formats import FORMATS, Format, ReadOptions, WriteOptions, get_format
from worldlm.data.importing import import_trajectories, sniff
from worldlm.data.realturns import realturns_files
from worldlm.data.report import Effect, FileReport, Losses, LossReport

__all__ = [
    "FORMATS",
    "Effect",
    "FileReport",
    "Format",
    "LossReport",
    "Losses",
    "ReadOptions",
    "WriteOptions",
    "export_trajectories",
    "get_format",
    "import_trajectories",
    "realturns_files",
    "sniff",
]
