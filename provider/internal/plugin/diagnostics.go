// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"net/http"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func errorDiagnostic(err error) diag.Diagnostic {
	summary, detail := splitMessage(err)
	return diag.NewErrorDiagnostic(summary, detail)
}

// warningDiagnostic returns the diagnostic of an error that does not stop the operation.
func warningDiagnostic(err error) diag.Diagnostic {
	summary, detail := splitMessage(err)
	return diag.NewWarningDiagnostic(summary, detail)
}

// splitMessage splits an error into a one-line summary and a detail with a hint.
func splitMessage(err error) (summary, detail string) {
	remedy := states.Remedy(err)
	if e, ok := errors.AsType[*statebackend.LockedError](err); ok && e.Held.ID != "" {
		remedy += "\nhint: this also removes the lock: terraform force-unlock " + text.ShellWord(e.Held.ID)
	}
	if !strings.Contains(remedy, "\nhint: ") {
		if h := hintOf(err); h != "" {
			remedy += "\nhint: " + h
		}
	}
	summary, detail, _ = strings.Cut(remedy, "\n")
	return summary, strings.ReplaceAll(detail, "hint: ", "Hint: ")
}

// isServerError reports whether a registry responded with a server error.
func isServerError(err error) bool {
	e, ok := errors.AsType[*oci.ResponseError](err)
	return ok && e.Status >= http.StatusInternalServerError
}

// hintOf returns the hint for most errors of a class.
func hintOf(err error) string {
	switch {
	case errors.Is(err, oci.ErrUnauthenticated):
		return "log in with `okara login HOST` or `docker login HOST`; `okara auth explain REPOSITORY` shows which credentials are used"
	case errors.Is(err, oci.ErrDenied):
		return "check that the repository or its project exists, and that the account has the necessary rights; `okara auth explain REPOSITORY` shows which credentials are used"
	case errors.Is(err, oci.ErrRateLimited):
		return "wait and retry; many registries have higher limits for authenticated users"
	case isServerError(err):
		return "the registry itself returned this error: check its log, and retry"
	case errors.Is(err, oci.ErrUnavailable):
		return "check the host name, the port and the network; set ca_file for a private CA, plain_http = true for http"
	case errors.Is(err, envelope.ErrKey):
		return "set a key that it was encrypted with in encryption; `okara state keys` shows the keys of every version"
	}
	return ""
}
