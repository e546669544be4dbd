"""Concrete objects for the verbs, chosen from what was typed."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from worldlm.core.errors import InputError, SetupError
from worldlm.core.protocols import Closes, Model
from worldlm.core.types import Profile
