"""The record: `base` (unit of work), `tables`, one module of queries an area, `sqlite` and `postgres`, `migrations`."""
