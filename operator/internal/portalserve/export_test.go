// SPDX-License-Identifier: Apache-2.0

package portalserve

// Again checks the file for changes now.
func (p *Portal) Again() { p.reloadSettings() }
