// SPDX-License-Identifier: Apache-2.0

// Package scan runs an external scanner on a directory and reads its report.
//
// A scanner is either Trivy, found on PATH under the name "trivy", or any command that takes a
// directory as its last argument and writes SARIF 2.1.0 to standard output. okara decides only on
// counts by severity. SARIF itself has only error, warning and note; scanners with finer levels use
// the rule's property security-severity, a CVSS score, as GitHub does: 9.0 and above is critical,
// 7.0 high, 4.0 medium, the rest low. Without that property error counts as high, warning as medium
// and note as low.
//
// The scanner reads the directory; okara never executes its content. If a
// scanner fails, its standard error is shown, shortened.
package scan
