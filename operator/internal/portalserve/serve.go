// SPDX-License-Identifier: Apache-2.0

package portalserve

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/pages"
	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/web"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/internal/instancectl"
)

// Options configures a portal.
type Options struct {
	File      string        // of [Settings]
	Namespace string        // of Templates and Instances
	Client    client.Client // reads from a cache
	Clock     *instancectl.Clock
	Transport http.RoundTripper // to issuers
	Version   string            // of the program
	Logger    *slog.Logger
}

// Portal answers requests according to the last valid version of the file.
type Portal struct {
	o       Options
	read    []byte // the file as last read
	serving atomic.Pointer[handler]
	closing atomic.Bool
}

// handler is built from one version of the file.
type handler struct {
	http.Handler
	kit *service.Kit
}

// rereadEvery is how often the file is checked for changes.
const rereadEvery = 10 * time.Second

// New reads the file and returns a portal.
func New(o Options) (*Portal, *Settings, error) {
	p := &Portal{o: o}
	src, err := os.ReadFile(o.File)
	if err != nil {
		return nil, nil, &syntax.SettingError{Err: err}
	}
	s, err := p.useSettings(src)
	return p, s, err
}

// useSettings replaces the settings by those in src, if it is valid.
func (p *Portal) useSettings(src []byte) (*Settings, error) {
	p.read = src
	s, err := Parse(src, p.o.File)
	if err != nil {
		return nil, err
	}
	h, err := p.handler(s)
	if err != nil {
		return nil, err
	}
	if before := p.serving.Swap(h); before != nil {
		before.kit.Close() // clients reconnect their streams
	}
	return s, nil
}

// Watch rereads the file when it changes, until ctx ends. An invalid file has no effect.
func (p *Portal) Watch(ctx context.Context) {
	t := time.NewTicker(rereadEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			p.reloadSettings()
		}
	}
}

func (p *Portal) reloadSettings() {
	src, err := os.ReadFile(p.o.File)
	if err != nil || bytes.Equal(src, p.read) {
		return
	}
	if _, err := p.useSettings(src); err != nil {
		p.o.Logger.Error("the configuration is invalid, and the previous one remains in effect", "error", err)
		return
	}
	p.o.Logger.Info("the configuration was reloaded")
}

// Close makes /readyz answer 503 and ends streams. Other requests are still answered.
func (p *Portal) Close() {
	p.closing.Store(true)
	p.serving.Load().kit.Close()
}

// ServeHTTP answers a request.
func (p *Portal) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.serving.Load().ServeHTTP(w, r) }

// handler serves the API and the pages on one port.
func (p *Portal) handler(s *Settings) (*handler, error) {
	about, err := s.Instance()
	if err != nil {
		return nil, err
	}
	settings := about.Settings
	settings.Namespace = p.o.Namespace
	templates := instancectl.NewCatalog(p.o.Client, settings)
	guard, err := s.guard(p.o.Logger, p.o.Transport, func() access.Kept { return keptClaims(templates, about.Limits) })
	if err != nil {
		return nil, err
	}
	kit := service.New(service.Options{Guard: guard, Logger: p.o.Logger})
	store := instancectl.NewStore(p.o.Client, templates, settings, p.o.Clock.Now)
	api, err := portal.New(portal.Options{
		Kit: kit, Store: store, Catalog: templates, Kinds: instancectl.Kinds{Reader: p.o.Client}, Machine: store.Machine(), Rate: about.Rate, GroupAge: about.GroupAge,
	})
	if err != nil {
		return nil, err
	}
	pages, err := p.newPages(s, kit, api)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/api/v1/", api)
	mux.Handle("/ui/", pages)
	mux.Handle("GET /login/callback", pages)
	mux.Handle("GET /favicon.ico", pages)
	mux.Handle("GET /{$}", http.RedirectHandler("ui/", http.StatusSeeOther))
	mux.Handle("GET /healthz", plainText("ok\n"))
	mux.Handle("GET /readyz", http.HandlerFunc(p.serveReady))
	return &handler{screenOrigins(kit, mux), kit}, nil
}

// screenOrigins rejects requests from web pages of another origin.
func screenOrigins(kit *service.Kit, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(service.NoSniff, "nosniff")
		if err := kit.Guard.Screen(r); err != nil {
			kit.Handle(func(http.ResponseWriter, *http.Request) error { return err }, kit.Fail).ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// newPages returns the pages of instances; a catalog is required and never used.
func (p *Portal) newPages(s *Settings, kit *service.Kit, api http.Handler) (http.Handler, error) {
	nowhere, err := oci.New("registry.invalid", oci.Options{})
	if err != nil {
		return nil, err
	}
	none := catalog.New(catalog.Options{Client: nowhere, Layout: addr.Layout{}})
	return web.New(web.Options{
		Kit: kit, Catalog: none, Finder: catalog.NewFinder(none, true), Hostname: s.Hostname, Version: p.o.Version,
		Off: web.Parts{Catalog: true, States: true, Depot: true, Doctor: true, Audit: true}, Instances: pages.New(pages.Options{API: api, Mine: api}),
	})
}

// keptClaims returns the parts of an identity that a session keeps for templates and limits.
func keptClaims(templates *instancectl.Catalog, limits lifecycle.Limits) access.Kept {
	var k access.Kept
	for _, q := range limits.Quotas {
		k.Groups = append(k.Groups, q.Groups...)
	}
	portal.KeepForTemplates(&k, templates.All())
	return k
}

// serveReady answers 200 until shutdown; objects were read in New.
func (p *Portal) serveReady(w http.ResponseWriter, r *http.Request) {
	if p.closing.Load() {
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	}
	plainText("ready\n").ServeHTTP(w, r)
}

func plainText(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte(text)) // the client is gone and cannot be informed
	})
}
