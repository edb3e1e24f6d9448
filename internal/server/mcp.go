// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/mcp"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
)

// serveMCP answers one message of an assistant. There are no sessions and no streams.
func (f *Front) serveMCP(w http.ResponseWriter, r *http.Request) error {
	if err := access.ScreenOrigin(f.kit.Guard, r); err != nil {
		return err
	}
	g, err := allowList(f.kit.Guard, r)
	if err != nil {
		return err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &service.Error{Status: http.StatusUnsupportedMediaType, Text: "the content type must be application/json"}
	}
	if v := r.Header.Get("MCP-Protocol-Version"); v != "" && !slices.Contains(mcp.Versions(), v) {
		return &service.Error{Status: http.StatusBadRequest, Text: "this revision of the protocol is not supported; send initialize to negotiate one"}
	}
	if err := f.kit.OpenBody(r); err != nil {
		return err
	}
	message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mcp.MaxMessage))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &service.Error{Status: http.StatusRequestEntityTooLarge, Text: "the message is larger than 64 KiB"}
	}
	if err != nil {
		return &service.Error{Status: http.StatusBadRequest, Text: "the message is incomplete"}
	}
	w.Header().Set("Cache-Control", "no-store")
	answer := mcp.Answer(r.Context(), mcpSource(f, r, g), f.o.Version, message)
	if answer == nil {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // an error means that the client is gone
	return nil
}

// refuseStream answers what asks for a stream of events, which there is none of:
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
func refuseStream(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Allow", http.MethodPost)
	return &service.Error{Status: http.StatusMethodNotAllowed, Text: "send messages by POST"}
}

// mcpSource reads for an assistant what the caller may read. It decides and records each right.
func mcpSource(f *Front, r *http.Request, g access.Grant) mcp.Source {
	modules := f.Protocols.Catalog()
	open := func(_ context.Context, it addr.Item, _ addr.Version) (*catalog.Catalog, error) {
		if _, err := f.kit.Guard.Allow(r, rights.Right{Action: rights.Read, Kind: rights.Kind(it.Kind), Address: it.String()}); err != nil {
			return nil, oci.ErrNotFound
		}
		return modules, nil
	}
	s := mcp.Source{
		Host: cmp.Or(f.o.Hostname, r.Host), Open: open,
		Find: func(ctx context.Context, query url.Values) (search.Results, error) {
			return findItems(ctx, f, query, g)
		},
		List: func(ctx context.Context, it addr.Item) (*depot.Listing, error) {
			if _, err := open(ctx, it, addr.Version{}); err != nil {
				return nil, err
			}
			l, err := modules.Versions(ctx, it)
			if err != nil {
				return nil, err
			}
			return l.Shown(), nil
		},
		Explain: func(err error) string {
			if no, ok := errors.AsType[*catalog.RefusedError](err); ok {
				return no.Error()
			}
			if errors.Is(err, oci.ErrNotFound) {
				return "this version does not exist, or this token may not read it"
			}
			f.kit.Log(r).Error("request of an assistant failed", "error", err)
			return "the request to the registry failed (request " + service.RequestID(r) + ")"
		},
	}
	if f.uses.Uses != nil {
		s.Users = func(ctx context.Context, _ string, q usage.Query) (usage.Answer, error) {
			return f.uses.Users(ctx, g, q), nil
		}
		s.Outdated = func(ctx context.Context) ([]usage.Outdated, bool, error) {
			all, complete := f.uses.Behind(ctx, g)
			return all, complete, nil
		}
	}
	return s
}
