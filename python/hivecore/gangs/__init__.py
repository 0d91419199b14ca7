"""Gangs: pods that start together or not at all, and who of them sits where.

A stage decides on a gang as a whole; here its pods come and go one by one.
"""

from hivecore.gangs.gang import Gang, Role
from hivecore.gangs.gangs import Answer, GangRequest, Gangs, ReservingStage
from hivecore.gangs.seats import Offer, Seat

__all__ = ["Answer", "Gang", "GangRequest", "Gangs", "Offer", "ReservingStage", "Role", "Seat"]
