# OLP with the vendors' CLIs. How to run it: docs/service.md
FROM node:22-slim AS node

FROM python:3.12-slim

# setpriv (util-linux) ends the CLIs with the server; git and ca-certificates are for the CLIs.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git util-linux \
    && rm -rf /var/lib/apt/lists/*

COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm

# The CLIs that you have a plan for; one that is not here is skipped in a chain.
RUN npm install --global --no-fund --no-audit @anthropic-ai/claude-code@latest @openai/codex@latest \
    && npm cache clean --force
RUN python -m venv /opt/vibe \
    && /opt/vibe/bin/pip install --no-cache-dir mistral-vibe \
    && ln -s /opt/vibe/bin/vibe /opt/vibe/bin/vibe-acp /usr/local/bin/

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY olp olp
RUN pip install --no-cache-dir ".[lan]" && rm -rf /src/*

# A user without rights. Its home is the volume: configuration, state, and the CLIs' logins.
# Prompts are in files for a moment; they stay out of the volume.
RUN useradd --create-home --uid 1000 --shell /bin/bash olp \
    && mkdir --mode 0700 /run/olp \
    && chown olp:olp /run/olp
USER olp
WORKDIR /home/olp
VOLUME /home/olp
ENV XDG_RUNTIME_DIR=/run/olp \
    OLP_SERVER_HOST=0.0.0.0 \
    DISABLE_AUTOUPDATER=1
EXPOSE 4567

# Liveness alone, over whichever of the two it speaks.
HEALTHCHECK --interval=30s --timeout=6s --start-period=20s CMD \
    for scheme in http https; do \
        python -c "import ssl, sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=2, context=ssl._create_unverified_context())" \
            $scheme://127.0.0.1:4567/healthz 2>/dev/null && exit 0; \
    done; exit 1

CMD ["olp", "serve"]
