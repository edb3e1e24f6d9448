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
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// address is the address of the provider for a tool that debugs it. A tool that installs
// the provider uses the address of its registry.
const address = "registry.terraform.io/okara/okara"

// fewBytes is the memory below which garbage is collected lazily. A state is in memory as
// a whole, once more while the buffer grows, and in chunks: this garbage is as large as
// the state, and above the limit it is collected at once.
const fewBytes = 96 << 20

// Serve runs the provider until its tool ends it. A stop signal, which terminals and service
// managers send to all processes, does not end it, since the tool handles the signal and needs the
// provider to store its last state. The framework also catches os.Interrupt.
func Serve(ctx context.Context, version string) error {
	debug.SetMemoryLimit(fewBytes)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
	p := newOkara(version)
	return providerserver.Serve(ctx, func() provider.Provider { return p }, providerserver.ServeOpts{Address: address})
}

// okara is the provider instance of this process.
type okara struct {
	version  string
	resolver *credentials.Resolver
	logger   *slog.Logger // to stderr, which the tools write to the log of TF_LOG
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

// Metadata sets the name and version of the provider.
func (p *okara) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "okara"
	resp.Version = p.version
}

// Schema is empty. Credentials are read from the stores of Docker, Podman and okara, and
// each data source and state store names its registry.
func (p *okara) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}

// Configure does nothing.
func (p *okara) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

// Resources returns none: commands publish and store what okara keeps.
func (p *okara) Resources(context.Context) []func() resource.Resource { return nil }

// DataSources returns the data sources of the provider.
func (p *okara) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		func() datasource.DataSource { return &stateData{open: p.openStore} },
		func() datasource.DataSource { return &versionsData{okara: p, of: addr.KindModule} },
		func() datasource.DataSource { return &versionsData{okara: p, of: addr.KindProvider} },
	}
}

// StateStores returns the only state store.
func (p *okara) StateStores(context.Context) []func() statestore.StateStore {
	return []func() statestore.StateStore{func() statestore.StateStore { return &stateStore{okara: p} }}
}

// toolName is the name of the provider in requests, states and locks.
func (p *okara) toolName() string { return "terraform-provider-okara/" + p.version }

func (p *okara) openStore(b backendblock.Backend) (*statebackend.Store, error) {
	o, err := p.openOptions()
	if err != nil {
		return nil, err
	}
	return backendblock.Open(b, o)
}

// openOptions returns the options for reaching any registry.
func (p *okara) openOptions() (backendblock.OpenOptions, error) {
	tls := httpserve.TransportOptions{CertDirs: httpserve.CertDirs(os.Getenv)}
	t, err := httpserve.Transport(tls)
	return backendblock.OpenOptions{
		Client: oci.Options{Credential: p.resolver.Credential, Rejected: p.resolver.Rejected, Transport: t, UserAgent: p.toolName()},
		TLS:    tls, State: statebackend.Options{
			Tool: p.toolName(), Logger: p.logger, // the tool's own folder is that of this process
			Usage: usage.Root{Dir: ".", DataDir: backendblock.DataDir(".", os.Getenv), Getenv: os.Getenv}.Record(),
		},
	}, err
}
