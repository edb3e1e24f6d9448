// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"

	"github.com/seed-141914ff/okara/internal/addr"
)

// need is a right that a request asks for.
type need struct{ action, kind, address string }

// needOf is the right to read or publish what a repository holds. The layout
// says what that is. Whatever else is below its states is state as well, of
// which only a right to all states tells; everything else, catalogue and queue
// among it, belongs to the server.
func needOf(l addr.Layout, action, repository string) need {
	stateAction := action
	if action == "publish" {
		stateAction = "write"
	}
	item, ok := l.Parse(repository)
	switch {
	case ok && item.Kind == addr.KindModule:
		return need{action, item.Kind, item.Module.String()}
	case ok && (item.Kind == addr.KindProvider || item.Kind == addr.KindMirror):
		return need{action, item.Kind, item.Provider.String()}
	case ok && item.Kind == addr.KindState:
		return need{stateAction, item.Kind, item.State}
	case l.BelowState(repository):
		return need{stateAction, addr.KindState, everything}
	}
	return need{"admin", "*", everything}
}

// distributionNeeds are the rights that a request of the distribution API asks
// for: on the repository in its path, and on those it mounts a blob from. They
// follow from method, path and query alone.
func distributionNeeds(l addr.Layout, r *http.Request) []need {
	if r.URL.Path == "/v2/" {
		return nil // it says only that there is a registry
	}
	action := "publish"
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		action = "read"
	}
	var needs []need
	for _, from := range r.URL.Query()["from"] {
		if from != "" {
			needs = append(needs, needOf(l, "read", from))
		}
	}
	return append(needs, needOf(l, action, repositoryOf(r.URL.Path)))
}
