-- Number of latencies in each bin, by line and slice of time.
SELECT
    CAST(line AS INTEGER) AS line,
    CAST(slice AS INTEGER) AS slice,
    bin,
    CAST(compare_cells.requests AS INTEGER) AS requests
FROM compare_cells
JOIN compare_lines
    ON compare_cells.kind = compare_lines.kind
    AND compare_cells.api = compare_lines.api
    AND compare_cells.name IS NOT DISTINCT FROM compare_lines.name
WHERE slice IS NOT NULL AND bin IS NOT NULL
ORDER BY line, slice, bin
LIMIT $most_cells
