"""Decision logs of schedulers, shown: tables, a picture, and the command `hivecore log`."""

from hivecore.sim.logs.picture import save_difference_picture
from hivecore.sim.logs.tables import difference_table, figures_table, standing_table

__all__ = [
    "difference_table",
    "figures_table",
    "save_difference_picture",
    "standing_table",
]
