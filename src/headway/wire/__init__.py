"""The API's requests and answers: one Pydantic model each, shared by api and client. Unknown keys are errors.

Times are ISO 8601 with zone on the wire; money is a decimal number of the currency unit; memory is bytes.
"""
