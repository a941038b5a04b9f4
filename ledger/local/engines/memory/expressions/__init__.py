"""DynamoDB's expressions: read into trees, checked against a request, and carried out on items.

::

    text -> syntax -> trees -> placeholders -> conditions, updates, projections, key_conditions
"""
