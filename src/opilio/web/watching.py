"""A crawl as it runs: figures, charts and the means to steer it."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
