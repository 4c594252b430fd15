"""The portal: the topic tree, its pages, and a page with all that is known of it."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter()
