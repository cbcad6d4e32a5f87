"""Released models and public data: fetched, checked, unpacked."""
