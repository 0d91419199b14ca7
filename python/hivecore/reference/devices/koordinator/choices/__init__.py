"""Which devices of a view: in order, near to each other, as a partition, or several types jointly.

All of them look at a view and choose; nothing is charged.
"""
