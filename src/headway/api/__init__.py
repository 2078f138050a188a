"""HTTP/JSON under `/api/v1`: routers that only translate between requests and `headway.services`.

`app.create_app` makes the ASGI application; `live` serves the event streams.
"""
