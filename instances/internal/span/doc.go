// SPDX-License-Identifier: Apache-2.0

// Package span has the time spans of the instances API in the form in which users write
// them, such as "8h".
package span
