-- An address with its port; one of IPv6 is in brackets.
CREATE TEMP MACRO address_text(ip, port) AS
    CASE WHEN ip LIKE '%:%' THEN concat('[', ip, ']:', port) ELSE concat(ip, ':', port) END
