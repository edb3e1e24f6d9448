// SPDX-License-Identifier: Apache-2.0

// Package mutant takes guards away from code, one at a time, and wants its tests to
// fail without them. Each guard needs a build, so that its tests run by the variable
// OKARA_TEST_MUTANTS only; that there is such a guard is looked at always. It is
// imported by tests only.
package mutant
