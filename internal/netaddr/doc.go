// SPDX-License-Identifier: Apache-2.0

// Package netaddr says what the address of a host tells before anybody is asked:
// whether only this machine or this network reaches it, and how users write the
// address of a server. There is one rule for each, since a token, a proxy and an
// open server depend on them.
package netaddr
