// A server that answers JupyterHub as a notebook server does, milliseconds after its start; many fit on one machine.
// Each answer holds the environment, so that tests see what the container got.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	address := ":8888"
	if hub, err := url.Parse(os.Getenv("JUPYTERHUB_SERVICE_URL")); err == nil && hub.Port() != "" {
		address = ":" + hub.Port()
	}
	environment := map[string]string{}
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		environment[name] = value
	}
	answer := func(response http.ResponseWriter, _ *http.Request) {
		response.Header().Set("Content-Type", "application/json")
		// The hub warns about servers that do not name a version.
		response.Header().Set("X-JupyterHub-Version", environment["JUPYTERHUB_VERSION"])
		_ = json.NewEncoder(response).Encode(environment)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ended
		os.Exit(0)
	}()
	log.Fatal(http.ListenAndServe(address, http.HandlerFunc(answer)))
}
