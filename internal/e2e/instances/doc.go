// SPDX-License-Identifier: Apache-2.0

// Command instances demonstrates instances on one machine: two replicas of okara over one
// registry, three users in two groups who get tokens from an issuer in this process, and
// stock tofu, with a module and a provider that okara serves itself. It takes about a
// quarter of an hour, because the minimum lifetime is ten minutes, and exits with 0 only if
// every step succeeded.
package main
