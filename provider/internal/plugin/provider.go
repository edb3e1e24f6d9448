// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/statestore"

	"github.com/seed-141914ff/okara/credentials"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/httpserve"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// address is how a tool that debugs the provider names it; one that installs it
// names the registry that it comes from.
const address = "registry.terraform.io/okara/okara"

// fewBytes is the memory up to which garbage is collected at leisure. A state is in
// memory as a whole, once more while it grows, and in chunks: garbage as large as the
// state, which is collected at once.
const fewBytes = 96 << 20

// Serve is the provider until its tool ends it. A signal to stop, which terminals and
// service managers send to all processes, is the tool's: it needs the provider to store
// its last state. The framework takes os.Interrupt as well.
func Serve(ctx context.Context, version string) error {
	debug.SetMemoryLimit(fewBytes)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
	p := newOkara(version)
	return providerserver.Serve(ctx, func() provider.Provider { return p }, providerserver.ServeOpts{Address: address})
}

// okara is the provider of one process.
type okara struct {
	version  string
	resolver *credentials.Resolver
	logger   *slog.Logger // to stderr, which the tools keep for TF_LOG
	locks    *locks
}

func newOkara(version string) *okara {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	given := credentials.Given(os.Getenv("OKARA_REGISTRY"), os.Getenv)
	return &okara{
		version:  version,
		resolver: credentials.New(credentials.Options{Explicit: given, Logger: logger}),
		logger:   logger,
		locks:    newLocks(),
	}
}

// Metadata names the provider.
func (p *okara) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "okara"
	resp.Version = p.version
}

// Schema has nothing: credentials are where Docker, Podman and okara keep them, and
// where a registry is, each data source and state store says itself.
func (p *okara) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

// Configure has nothing to do.
func (p *okara) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

// Resources are none: what okara keeps is published and stored by commands.
func (p *okara) Resources(context.Context) []func() resource.Resource { return nil }

// DataSources are those of the provider.
func (p *okara) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		func() datasource.DataSource { return &stateData{okara: p} },
		func() datasource.DataSource { return &versionsData{okara: p, of: addr.KindModule} },
		func() datasource.DataSource { return &versionsData{okara: p, of: addr.KindProvider} },
	}
}

// StateStores is the one state store.
func (p *okara) StateStores(context.Context) []func() statestore.StateStore {
	return []func() statestore.StateStore{func() statestore.StateStore { return &stateStore{okara: p} }}
}

// tool is how the provider names itself to registries, in states and in locks.
func (p *okara) tool() string { return "terraform-provider-okara/" + p.version }

// open returns the store of one repository.
func (p *okara) open(b backendblock.Backend) (*statebackend.Store, error) {
	o, err := p.openOptions()
	if err != nil {
		return nil, err
	}
	return backendblock.Open(b, o)
}

// openOptions are how any registry is reached.
func (p *okara) openOptions() (backendblock.OpenOptions, error) {
	tls := httpserve.TransportOptions{CertDirs: httpserve.CertDirs(os.Getenv)}
	t, err := httpserve.Transport(tls)
	return backendblock.OpenOptions{
		Client: oci.Options{Credential: p.resolver.Credential, Rejected: p.resolver.Rejected, Transport: t, UserAgent: p.tool()},
		TLS:    tls, State: statebackend.Options{Tool: p.tool(), Logger: p.logger},
	}, err
}
