// SPDX-License-Identifier: Apache-2.0

package portalserve

// Again looks at the file now.
func (p *Portal) Again() { p.again() }
