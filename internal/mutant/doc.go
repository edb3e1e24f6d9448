// SPDX-License-Identifier: Apache-2.0

// Package mutant removes guards from code, one at a time, and checks that the tests fail without
// them. Since each guard needs a build, these tests run only if the variable OKARA_TEST_MUTANTS is
// set. That the guard exists is always checked. Only tests import this package.
package mutant
