// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"net/http"
	"strings"
)

// OwnRegistry is the host of a server's own registry, within the process.
const OwnRegistry = "okara.invalid"

// NameRegistry returns text with the own registry as the caller names it: it answers below /v2/.
func NameRegistry(r *http.Request, text string) string {
	return strings.ReplaceAll(text, OwnRegistry, r.Host)
}
