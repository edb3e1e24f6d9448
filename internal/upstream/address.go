// SPDX-License-Identifier: Apache-2.0

package upstream

import "net/netip"

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
