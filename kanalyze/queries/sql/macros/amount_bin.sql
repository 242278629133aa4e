-- The bin of an amount.
--
-- Bins have a width of e^(1/252), so amounts in the same bin differ by less than 0.4 %. The bin of a
-- negative amount is the negative of that of its opposite. `bin_amount` is the inverse.
CREATE TEMP MACRO amount_bin(amount) AS
    CAST(sign(amount) * floor(ln(abs(CAST(amount AS DOUBLE)) + 1) * 252) AS INTEGER)
