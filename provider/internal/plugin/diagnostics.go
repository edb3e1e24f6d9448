// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
)

// failure is the diagnostic of an error.
func failure(err error) diag.Diagnostic {
	summary, detail := message(err)
	return diag.NewErrorDiagnostic(summary, detail)
}

// warning is the diagnostic of an error after which everything goes on.
func warning(err error) diag.Diagnostic {
	summary, detail := message(err)
	return diag.NewWarningDiagnostic(summary, detail)
}

// message is an error as a diagnostic says it: in one line, and what helps.
func message(err error) (summary, detail string) {
	text := states.Remedy(err)
	if !strings.Contains(text, "\nhint: ") {
		if h := hint(err); h != "" {
			text += "\nhint: " + h
		}
	}
	summary, detail, _ = strings.Cut(text, "\n")
	return summary, strings.ReplaceAll(detail, "hint: ", "Hint: ")
}

// hint is what helps against most errors of a class.
func hint(err error) string {
	switch {
	case errors.Is(err, oci.ErrUnauthenticated):
		return "log in with `okara login HOST` or `docker login HOST`; `okara auth explain REPOSITORY` shows which credentials are used"
	case errors.Is(err, oci.ErrDenied):
		return "check that the repository or its project is there, and what the account may do in it; `okara auth explain REPOSITORY` shows which credentials are used"
	case errors.Is(err, oci.ErrRateLimited):
		return "wait and repeat the command; many registries allow more to those who are logged in"
	case errors.Is(err, oci.ErrUnavailable):
		return "check the host name, the port and the network; ca_file names a private CA, plain_http = true speaks http"
	case errors.Is(err, envelope.ErrKey):
		return "name a key that it was sealed for in encryption; `okara state keys` shows the keys of every version"
	}
	return ""
}
