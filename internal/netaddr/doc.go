// SPDX-License-Identifier: Apache-2.0

// Package netaddr classifies the address of a host without a request: whether only this machine or
// this network reaches it. It also parses addresses of servers as users write them. There is one
// rule for each, since tokens, proxies and servers open to anonymous callers depend on them.
package netaddr
