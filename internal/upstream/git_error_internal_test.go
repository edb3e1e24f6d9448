// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/seed-141914ff/okara/oci"
)

// TestGitError: git's message, with the sentinel that decides the exit code.
func TestGitError(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind error
		text string
	}{
		{fmt.Errorf("%w: ", transport.ErrRepositoryNotFound), oci.ErrNotFound, "repository not found"},
		{transport.ErrAuthenticationRequired, oci.ErrUnauthenticated, "authentication required"},
		{transport.ErrAuthorizationFailed, oci.ErrDenied, "authorization failed"},
		{errors.New(`Get "https://u:p@x.com/r.git?access_token=s/info/refs?service=x": EOF`), oci.ErrUnavailable, `Get "https://x.com/r.git": EOF`},
		{errors.New("connection refused"), oci.ErrUnavailable, "connection refused"},
		{fmt.Errorf("checkout: %w", oci.ErrTooLarge), oci.ErrTooLarge, "checkout: too large"},
	} {
		if got := gitError(c.err); !errors.Is(got, c.kind) || !errors.Is(got, c.err) || got.Error() != c.text {
			t.Errorf("%v became %v", c.err, got)
		}
	}
}
