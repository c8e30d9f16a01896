"""A gateway for the page that needs one."""

from tests.contracts.conftest import gateway, token

__all__ = ["gateway", "token"]
