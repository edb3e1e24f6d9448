// SPDX-License-Identifier: Apache-2.0

// Command instances shows what instances are, on one machine: two replicas of okara
// over one registry, three people in two groups who get their tokens from an issuer
// in this process, and stock tofu, with a module and a provider that okara serves
// itself. It takes about a quarter of an hour, because no lifetime is shorter than
// ten minutes, and ends with 0 only if every step was as it says.
package main
