"""Pure decisions and frozen value types: no I/O, no hidden clock.

A rule that depends on time takes `now` (seconds since the epoch, UTC). Money is counted in
micros: millionths of the currency unit.
"""
