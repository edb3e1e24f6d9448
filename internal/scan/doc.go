// SPDX-License-Identifier: Apache-2.0

// Package scan runs an outside scanner on a directory and reads its report.
//
// A scanner is either Trivy, found on PATH under the name "trivy", or any
// command that takes a directory as its last argument and writes SARIF 2.1.0 to
// standard output. Okara decides on counts by severity alone. SARIF itself knows
// only error, warning and note; scanners that know more say so in the rule's
// property security-severity, a CVSS score, which GitHub reads in the same way:
// 9.0 and above is critical, 7.0 high, 4.0 medium, the rest low. Without that
// property error counts as high, warning as medium and note as low.
//
// The directory is read by the scanner, never executed by okara. What a scanner
// writes to standard error is shown, shortened, if it fails.
package scan
