// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/seed-141914ff/okara/statebackend"
)

// The methods that the http backend uses in addition to those of HTTP.
const (
	methodLock   = "LOCK"
	methodUnlock = "UNLOCK"
)

// maxState bounds the size of a state that is read; okara serve stores no larger ones.
const maxState = 512 << 20

// answerError is an unexpected response of okara serve.
type answerError struct {
	method, address string
	status          int
	text            string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("okara serve: %s %s: %d %s: %s", e.method, e.address, e.status, http.StatusText(e.status), e.text)
}

// sendRequest sends one request for a run's state as the operator. 204, and GET's 404, have no
// body; 423 is a [*statebackend.LockedError].
func (a *Access) sendRequest(ctx context.Context, r Run, method, lock string, body []byte) ([]byte, error) {
	token, err := a.o.Issuer.Own(ctx, r)
	if err != nil {
		return nil, err
	}
	address := a.Address(r)
	if lock != "" {
		address += "?" + url.Values{"ID": {lock}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("okara-operator", token)
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("okara serve: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxState+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("okara serve: %s %s: %w", method, a.Address(r), err)
	case len(b) > maxState:
		return nil, fmt.Errorf("okara serve: %s %s: the response exceeds the maximum size of a state", method, a.Address(r))
	case resp.StatusCode == http.StatusNoContent, method == http.MethodGet && resp.StatusCode == http.StatusNotFound && ownRefusal(b):
		return nil, nil
	case resp.StatusCode == http.StatusOK:
		return b, nil
	case resp.StatusCode == http.StatusLocked:
		e := &statebackend.LockedError{Workspace: r.Workspace, Repository: a.StateName(r.Namespace)}
		_ = json.Unmarshal(b, &e.Held) // optional in the message
		return nil, e
	}
	const limit = 500 // of a page that a proxy may have sent
	return nil, &answerError{method, a.Address(r), resp.StatusCode, string(bytes.TrimSpace(b[:min(len(b), limit)]))}
}

// ownRefusal reports whether a refusal is from okara serve, and not the page of a proxy.
func ownRefusal(body []byte) bool {
	var refusal struct {
		Errors []string `json:"errors"`
	}
	return json.Unmarshal(body, &refusal) == nil && len(refusal.Errors) > 0
}

// readState returns the current state of a run, or nil if there is none.
func (a *Access) readState(ctx context.Context, r Run) ([]byte, error) {
	return a.sendRequest(ctx, r, http.MethodGet, "", nil)
}
