// SPDX-License-Identifier: Apache-2.0

package httpserve

import (
	"net/http"
	"strings"
)

// OwnRegistry is the host name for requests of a server to its own registry. Such
// requests never leave the process.
const OwnRegistry = "okara.invalid"

// NameRegistry returns text with the server's own registry under the host name that the
// caller used: there it answers below /v2/.
func NameRegistry(r *http.Request, text string) string {
	return strings.ReplaceAll(text, OwnRegistry, r.Host)
}
