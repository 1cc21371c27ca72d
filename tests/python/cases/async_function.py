# map | global: async
async def operator(item):
    return item
